"""How the gate's content model is trained, judged and reported on."""
