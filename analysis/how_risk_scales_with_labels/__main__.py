"""Runs the study: python analysis/how_risk_scales_with_labels."""

from pathlib import Path

from zoo.cli import main

main("study", str(Path(__file__).parent))
