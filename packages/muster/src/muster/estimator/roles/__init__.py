"""`train_and_evaluate`: the part of each task of a job, by its role."""
