"""Runs the study: python analysis/which_objectives_are_usable."""

from pathlib import Path

from zoo.cli import main

main("study", str(Path(__file__).parent))
