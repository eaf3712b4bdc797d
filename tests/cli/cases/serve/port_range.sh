crosshead serve $DATA/TinyStories-656K --port 65536
