"""Trained weights: downloaded, checked, read without running anything, stored by content.

The only package that downloads, and the only one that reads pickles. No module of it knows an encoder: what a file must
contain is decided by :mod:`zoo.encoders.layouts`, and :mod:`zoo.loading` brings the two together.
"""
