"""``tf.contrib.gan.losses``: of a ``GANModel``; in ``wargs`` of the discriminator's outputs."""

from muster_tensorflow.library.contrib.gan import _losses
from muster_tensorflow.names._names import Names as _Names

wargs = _Names(
    "tf.contrib.gan.losses.wargs",
    least_squares_discriminator_loss=_losses.least_squares_discriminator_loss,
    least_squares_generator_loss=_losses.least_squares_generator_loss,
    minimax_discriminator_loss=_losses.minimax_discriminator_loss,
    minimax_generator_loss=_losses.minimax_generator_loss,
    modified_discriminator_loss=_losses.modified_discriminator_loss,
    modified_generator_loss=_losses.modified_generator_loss,
    wasserstein_discriminator_loss=_losses.wasserstein_discriminator_loss,
    wasserstein_generator_loss=_losses.wasserstein_generator_loss,
    wasserstein_gradient_penalty=_losses.wasserstein_gradient_penalty,
)
least_squares_discriminator_loss = _losses.of_model(_losses.least_squares_discriminator_loss)
least_squares_generator_loss = _losses.of_model(_losses.least_squares_generator_loss)
minimax_discriminator_loss = _losses.of_model(_losses.minimax_discriminator_loss)
minimax_generator_loss = _losses.of_model(_losses.minimax_generator_loss)
modified_discriminator_loss = _losses.of_model(_losses.modified_discriminator_loss)
modified_generator_loss = _losses.of_model(_losses.modified_generator_loss)
wasserstein_discriminator_loss = _losses.of_model(_losses.wasserstein_discriminator_loss)
wasserstein_generator_loss = _losses.of_model(_losses.wasserstein_generator_loss)
wasserstein_gradient_penalty = _losses.of_model(_losses.wasserstein_gradient_penalty)
