"""Pictures of what encoders make of images, and of the mistakes of probes; single-file pages that hold them."""
