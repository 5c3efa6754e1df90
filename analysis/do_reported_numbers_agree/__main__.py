"""Runs the study: python analysis/do_reported_numbers_agree."""

from pathlib import Path

from zoo.cli import main

main("study", str(Path(__file__).parent))
