"""Runs the study: python analysis/label_free_vs_probe."""

from pathlib import Path

from zoo.cli import main

main("study", str(Path(__file__).parent))
