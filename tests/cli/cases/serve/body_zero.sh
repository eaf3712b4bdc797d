crosshead serve $DATA/TinyStories-656K --max-body 0
