"""Which encoder for one's own images: constraints, a diverse shortlist, a race on the images, and its page."""
