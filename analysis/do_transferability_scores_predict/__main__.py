"""Runs the study: python analysis/do_transferability_scores_predict."""

from pathlib import Path

from zoo.cli import main

main("study", str(Path(__file__).parent))
