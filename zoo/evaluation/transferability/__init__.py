"""Scores of labelled features that say how well a probe on them may do, without training a tuned one."""
