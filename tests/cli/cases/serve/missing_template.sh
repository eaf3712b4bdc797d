crosshead serve $DATA/TinyStories-656K --port 0 --chat-template no-such-file
