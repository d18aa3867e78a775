"""Trainers and formats of other libraries, each optional: a module here imports its library when it is imported."""
