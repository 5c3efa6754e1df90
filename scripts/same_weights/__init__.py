"""Families of encoders that several libraries have, compared on the same random weights (``compare_weights.py``).

A family is a module with ``AUTHORS``, for each of the authors' repositories a commit and the paths that are needed of
it, and ``measure(authors)``, which gives a :class:`~same_weights.shared.Difference` per row of its table; ``authors``
is a folder of those files by repository.
"""
