crosshead serve $DATA/TinyStories-656K --drain -1
