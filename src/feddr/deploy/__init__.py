"""Operation on real machines: certificates, checks, and supervised starts of Flower's processes."""
