"""Deploys what a sweep recommends, proves it with a canary, remembers every deployment, and takes one back."""
