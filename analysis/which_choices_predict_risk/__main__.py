"""Runs the study: python analysis/which_choices_predict_risk."""

from pathlib import Path

from zoo.cli import main

main("study", str(Path(__file__).parent))
