"""Folders of runs that survive kills, full disks and flipped bits; JSON and safetensors only, never pickled code."""
