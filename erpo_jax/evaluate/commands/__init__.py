"""What the first word of launch/evaluate.py names: one module a word, with its flags and `main(words) -> exit code`."""
