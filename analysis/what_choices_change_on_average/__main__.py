"""Runs the study: python analysis/what_choices_change_on_average."""

from pathlib import Path

from zoo.cli import main

main("study", str(Path(__file__).parent))
