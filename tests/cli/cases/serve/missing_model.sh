crosshead serve no-such-model
