"""The version, in the one place that the build, the hub and the command read."""

__version__ = "0.1.0"
