"""`train_and_evaluate`: what each task of a job does."""
