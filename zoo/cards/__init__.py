"""What is known of each encoder: cards, read from ``metadata/`` and checked."""
