"""How good a representation is, told without labels: RankMe, LiDAR, CLID and what they are compared with.

``catalogue`` is the table of contents. Every metric is a function of arrays; ``gram`` and ``Monitor`` make the spectral
ones from sums that one pass over any number of rows gives, and that add up over processes.
"""
