"""What the measurements mean: studies that read cards and results and import no torch."""
