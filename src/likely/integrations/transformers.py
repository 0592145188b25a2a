"""Likelihood losses under Hugging Face's Trainer: a model and its likelihood as one module."""

from __future__ import annotations

from typing import Any

from torch import Tensor, nn
from transformers import PreTrainedModel
from transformers.utils.generic import ModelOutput

from likely.losses import SoftmaxLoss, TokenTemperature
from likely.optim import Supervised, outputs_of

__all__ = ["LikelihoodModel"]

_AFTER_THE_OUTPUT_LAYER = ("final_logit_softcapping", "logit_scale", "logits_scaling")
_IGNORED = -100  # how the Trainer marks, and does not count, labels that are none


class LikelihoodModel(Supervised):
    """A transformer and its likelihood as one module that a ``Trainer`` trains, saves and loads.

    It is called as the transformer is and answers with ``loss`` and the transformer's own ``logits``. The loss is made
    inside the forward pass, so that DDP and FSDP see φ; and over a step's accumulated batches it is their mean over all
    labels, however they are spread. Where the transformer is causal, state i predicts label i + 1. With
    :class:`likely.TokenTemperature` it reads the last hidden states; logits then exist only in evaluation, and come
    divided by their temperatures.

    Hand the Trainer ``remove_unused_columns=False``, and ``optimizers=`` made from :func:`likely.param_groups`: its
    own optimizer would move φ at the model's rate. ``wrapped.model.save_pretrained`` saves the transformer alone.

    Args:
        model: any transformer that answers with ``logits``.
        loss_fn: a likelihood loss, or a TokenTemperature for a causal language model.
        features: the submodule whose output Predicted parameters read.

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
            raise ValueError("token ids are no features: name the submodule whose output Predicted parameters read")
        if getattr(loss_fn, "reduction", "mean") != "mean":
            raise ValueError(f"the Trainer takes means: use reduction='mean' in place of {loss_fn.reduction!r}")
        changed = [name for name in _AFTER_THE_OUTPUT_LAYER if getattr(model.config, name, None) not in (None, 1)]
        if changed and isinstance(loss_fn, TokenTemperature):
            raise ValueError(f"TokenTemperature knows no {changed[0]}: use SoftmaxLoss with this model")
        # What the Trainer looks up: whether labels are shifted, and what evaluation leaves out.
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
        """``loss`` if there are labels, and ``logits``."""
        if not inputs:
            raise ValueError(
                "the model was given no inputs: the Trainer removes columns it does not know; "
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
        """Logits, and the output of the submodule named."""
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
        """A batch's part of the mean over all ``items`` labels of the step."""
        if items is None:
            return loss
        own = (labels[..., 1:] if self.causal else labels).ne(_IGNORED).sum()
        return loss * own / items


def _untie(module: nn.Module, state_dict: dict[str, Any], prefix: str, metadata: Any) -> None:
    """Copy tensors that are there twice, as tied embeddings are: safetensors refuses them otherwise."""
    seen: set[int] = set()
    for name, value in state_dict.items():
        if name.startswith(prefix) and type(value) is Tensor and value.numel():
            if value.data_ptr() in seen:
                state_dict[name] = value.clone()
            seen.add(value.data_ptr())
