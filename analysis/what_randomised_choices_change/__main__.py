"""Runs the study: python analysis/what_randomised_choices_change."""

from pathlib import Path

from zoo.cli import main

main("study", str(Path(__file__).parent))
