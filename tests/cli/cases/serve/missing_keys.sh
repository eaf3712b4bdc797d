crosshead serve $DATA/TinyStories-656K --port 0 --api-key-file no-such-file
