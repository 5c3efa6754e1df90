"""Runs the study: python analysis/what_an_encoder_is_good_at."""

from pathlib import Path

from zoo.cli import main

main("study", str(Path(__file__).parent))
