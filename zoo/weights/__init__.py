"""Trained weights: fetched, checked, read without running anything, kept by content.

The only package that touches the network, and the only one that reads pickles. No module of it knows an encoder: what
a file must hold is decided by :mod:`zoo.encoders.layouts`, and :mod:`zoo.loading` brings the two together.

"""
