"""Studies: finding those in ``analysis/``, running them, and writing what they found."""
