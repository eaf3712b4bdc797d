crosshead serve $DATA/TinyStories-656K --queue 0
