"""Runs the study: python analysis/where_the_risk_lies."""

from pathlib import Path

from zoo.cli import main

main("study", str(Path(__file__).parent))
