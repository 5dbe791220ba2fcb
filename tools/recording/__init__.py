"""Records a terminal session as it is: what was printed, when, as a file to play and as an animated picture."""
