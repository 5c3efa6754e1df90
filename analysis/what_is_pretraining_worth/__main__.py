"""Runs the study: python analysis/what_is_pretraining_worth."""

from pathlib import Path

from zoo.cli import main

main("study", str(Path(__file__).parent))
