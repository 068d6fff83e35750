"""Answers from any server that speaks the OpenAI chat API."""
