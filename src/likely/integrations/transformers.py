"""Likelihood losses in Hugging Face's Trainer: a model and its likelihood as one module, and a callback for φ."""

from typing import Any

from torch import Tensor, nn
from transformers import PreTrainedModel, TrainerCallback
from transformers.utils.generic import ModelOutput

from likely.integrations.monitor import Caught
from likely.losses import SoftmaxLoss, TokenTemperature
from likely.optim import Supervised, outputs_of

__all__ = ["LikelihoodModel", "LikelihoodMonitor"]

_AFTER_THE_OUTPUT_LAYER = ("final_logit_softcapping", "logit_scale", "logits_scaling")
_IGNORED = -100  # marks labels that the Trainer ignores


class LikelihoodModel(Supervised):
    """A transformer and its likelihood loss as one module that a ``Trainer`` trains, saves and loads.

    It is called as the transformer is and returns ``loss`` and the transformer's ``logits``. The loss is computed in
    the forward pass, so that DDP and FSDP synchronize φ; with gradient accumulation it is the mean over all labels of
    a step. If the transformer is causal, state i predicts label i + 1. With :class:`likely.TokenTemperature`, which
    reads the last hidden states, logits are computed only in evaluation, divided by their temperatures.

    Give the Trainer ``remove_unused_columns=False``, and ``optimizers=`` made from :func:`likely.param_groups`: its
    default optimizer would train φ at the model's learning rate. ``wrapped.model.save_pretrained`` saves the
    transformer alone.

    See also :class:`likely.Supervised`, the same for your own training loop.

    Args:
        model: any transformer whose output has ``logits``.
        loss_fn: a likelihood loss, or a TokenTemperature for a causal language model.
        features: name of the submodule whose output Predicted parameters read; None without such parameters.

    >>> import torch, likely
    >>> from transformers import LlamaConfig, LlamaForCausalLM
    >>> from likely.integrations.transformers import LikelihoodModel
    >>> sizes = dict(hidden_size=8, intermediate_size=8, num_hidden_layers=1, num_attention_heads=2)
    >>> lm = LlamaForCausalLM(LlamaConfig(vocab_size=50, **sizes))
    >>> wrapped = LikelihoodModel(lm, likely.TokenTemperature(8))
    >>> tokens = torch.randint(50, (2, 6))
    >>> wrapped(input_ids=tokens, labels=tokens).loss.backward()
    >>> optimizer = torch.optim.AdamW(likely.param_groups(wrapped.model, wrapped.loss_fn, lr=1e-3))
    """

    accepts_loss_kwargs = True

    def __init__(self, model: PreTrainedModel, loss_fn: nn.Module, features: str | None = None) -> None:
        super().__init__(model, loss_fn, features)
        if features == "input":
            raise ValueError(
                "token ids cannot be features: give the name of the submodule whose output Predicted parameters read"
            )
        if getattr(loss_fn, "reduction", "mean") != "mean":
            raise ValueError(f"the Trainer needs a mean: use reduction='mean' instead of {loss_fn.reduction!r}")
        changed = [name for name in _AFTER_THE_OUTPUT_LAYER if getattr(model.config, name, None) not in (None, 1)]
        if changed and isinstance(loss_fn, TokenTemperature):
            raise ValueError(f"TokenTemperature does not support {changed[0]}: use SoftmaxLoss with this model")
        # The Trainer reads these: whether labels are shifted, and what evaluation leaves out.
        self.config, self.loss_type = model.config, getattr(model, "loss_type", None)
        self.register_state_dict_post_hook(_untie)

    @property
    def causal(self) -> bool:
        """Whether state i predicts label i + 1."""
        return self.loss_type == "ForCausalLM" and not self.config.is_encoder_decoder

    def forward(  # type: ignore[override]
        self,
        labels: Tensor | None = None,
        index: Tensor | None = None,
        num_items_in_batch: Tensor | int | None = None,
        **inputs: Any,
    ) -> ModelOutput:
        """Run the transformer, and compute the loss if there are labels.

        Args:
            labels: targets of the loss, as the transformer takes them; None computes no loss.
            index: row numbers of the batch, of shape (rows,), for Data parameters.
            num_items_in_batch: number of labels in all batches of the step, as the Trainer passes it; None takes the
                mean over this batch.
            **inputs: the transformer's arguments, such as ``input_ids`` and ``attention_mask``.

        Returns:
            A ``ModelOutput`` with ``loss``, a scalar, if there are labels, and ``logits``.

        Raises:
            ValueError: if there are no inputs.
        """
        if not inputs:
            raise ValueError(
                "the model was given no inputs, because the Trainer removes columns that it cannot match to arguments: "
                "use TrainingArguments(remove_unused_columns=False)"
            )
        if isinstance(self.loss_fn, TokenTemperature):
            return self._tokens(labels, num_items_in_batch, inputs)
        logits, features = self._run(inputs)
        if labels is None:
            return ModelOutput(logits=logits)
        loss = self._loss(logits, labels, features, index)
        return ModelOutput(loss=self._share(loss, labels, num_items_in_batch), logits=logits)

    def _tokens(self, labels: Tensor | None, items: Tensor | int | None, inputs: dict[str, Any]) -> ModelOutput:
        head: Any = self.loss_fn
        model: Any = self.model
        states, output = model.base_model(**inputs).last_hidden_state, model.get_output_embeddings()
        bias = getattr(output, "bias", None)
        answer = ModelOutput()
        if labels is not None:
            loss = head(states, output.weight, labels, bias=bias)
            answer["loss"] = self._share(loss, labels, items)
        if labels is None or not self.training:
            answer["logits"] = output(states) / head.temperature(states).to(states.dtype)[..., None]
        return answer

    def _run(self, inputs: dict[str, Any]) -> tuple[Tensor, Tensor | None]:
        """The logits, and the output of the submodule ``features``."""
        if self.features is None:
            return self.model(**inputs).logits, None
        with outputs_of(self.model, str(self.features)) as caught:
            logits = self.model(**inputs).logits
        return logits, caught[-1] if isinstance(caught[-1], Tensor) else caught[-1][0]

    def _loss(self, logits: Tensor, labels: Tensor, features: Tensor | None, index: Tensor | None) -> Tensor:
        if self.causal:
            logits, labels = logits[:, :-1], labels[:, 1:]
            features = features[:, :-1] if features is not None and features.ndim == 3 else features
        if isinstance(self.loss_fn, SoftmaxLoss):
            logits = logits.movedim(-1, 1)
        else:
            labels = labels.reshape(logits.shape).to(logits.dtype)
        return self.loss_fn(logits, labels, features=features, index=index)

    def _share(self, loss: Tensor, labels: Tensor, items: Tensor | int | None) -> Tensor:
        """The share of a batch in the mean over all ``items`` labels of the step."""
        if items is None:
            return loss
        count = (labels[..., 1:] if self.causal else labels).ne(_IGNORED).sum()
        return loss * count / items


class LikelihoodMonitor(TrainerCallback):
    """A ``Trainer`` callback that warns of likelihood parameters that collapse, or that lag behind their optimum.

    It reads them at the end of every epoch, on any device, and warns once per parameter: if a value is not finite, if
    in every row it is at the floor of its constraint or is a temperature above 100, and if a shared parameter is still
    far from its optimum, given the predictions, after 2,000 steps.

    See also :class:`likely.integrations.monitor.LikelihoodMonitor`, the same for your own training loop.

    Attributes:
        values: the numbers at the end of the last epoch, by the name of their parameter.

    >>> from likely.integrations.transformers import LikelihoodMonitor
    >>> callbacks = [LikelihoodMonitor()]  # of Trainer(model, arguments, callbacks=callbacks, …)
    """

    def __init__(self) -> None:
        self.values: dict[str, float] = {}
        self._caught = Caught(nn.Module())

    def on_train_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Attach to the parameters; the Trainer calls this.

        Args:
            args: the Trainer's arguments; not used.
            state: the Trainer's state; not used.
            control: the Trainer's flow; not used.
            **kwargs: what the Trainer passes besides, of which ``model`` is used.
        """
        self._caught = Caught(kwargs["model"])

    def on_epoch_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Read the parameters, and warn; the Trainer calls this.

        Args:
            args: the Trainer's arguments; not used.
            state: the Trainer's state; not used.
            control: the Trainer's flow; not used.
            **kwargs: what the Trainer passes besides; not used.
        """
        self.values = self._caught.report()

    def on_train_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Remove all hooks; the Trainer calls this.

        Args:
            args: the Trainer's arguments; not used.
            state: the Trainer's state; not used.
            control: the Trainer's flow; not used.
            **kwargs: what the Trainer passes besides; not used.
        """
        self._caught.remove()


def _untie(module: nn.Module, state_dict: dict[str, Any], prefix: str, metadata: Any) -> None:
    """Copy tensors that occur twice, such as tied embeddings, which safetensors does not accept."""
    seen: set[int] = set()
    for name, value in state_dict.items():
        if name.startswith(prefix) and type(value) is Tensor and value.numel():
            if value.data_ptr() in seen:
                state_dict[name] = value.clone()
            seen.add(value.data_ptr())
