"""Trains a small target model and an EAGLE-3 draft model for it, on the GPU machine, from text at hand there."""
