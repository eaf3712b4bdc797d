crosshead serve $DATA/TinyStories-656K --port 0 --keep-dictionary
