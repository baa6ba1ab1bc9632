"""`just proof`: does a real model follow lessons, and can it write them?"""
