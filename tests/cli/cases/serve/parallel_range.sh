crosshead serve $DATA/TinyStories-656K --parallel 33
