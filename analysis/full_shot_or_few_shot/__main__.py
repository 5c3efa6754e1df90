"""Runs the study: python analysis/full_shot_or_few_shot."""

from pathlib import Path

from zoo.cli import main

main("study", str(Path(__file__).parent))
