"""SSL Zoo: self-supervised vision encoders, what is known of them and what was measured.

>>> import zoo
>>> card = zoo.card("dino_vitS16")
>>> card.representation.dim
1536
"""
