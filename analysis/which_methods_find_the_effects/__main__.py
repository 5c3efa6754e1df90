"""Runs the study: python analysis/which_methods_find_the_effects."""

from pathlib import Path

from zoo.cli import main

main("study", str(Path(__file__).parent))
