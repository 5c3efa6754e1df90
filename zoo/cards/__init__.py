"""Cards: the published facts of each encoder, read from ``metadata/`` and checked."""
