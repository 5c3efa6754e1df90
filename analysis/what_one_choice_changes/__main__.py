"""Runs the study: python analysis/what_one_choice_changes."""

from pathlib import Path

from zoo.cli import main

main("study", str(Path(__file__).parent))
