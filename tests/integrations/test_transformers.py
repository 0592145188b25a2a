"""Hugging Face's Trainer and accelerate train φ, count labels rightly and keep it in checkpoints."""

import copy

import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import likely

pytest.importorskip("transformers")
pytest.importorskip("accelerate")
from accelerate import Accelerator
from transformers import (
    BertConfig,
    BertForSequenceClassification,
    GPT2Config,
    GPT2LMHeadModel,
    LlamaConfig,
    LlamaForCausalLM,
    Trainer,
    TrainingArguments,
)

from likely.integrations.transformers import LikelihoodModel, LikelihoodMonitor

# Pinned memory on a machine without an accelerator.
pytestmark = pytest.mark.filterwarnings("ignore:.*pin_memory.*")

VOCABULARY = 20


@pytest.fixture(autouse=True)
def no_datasets(monkeypatch):
    """tests/ is on the path and tests/datasets is not the library of that name."""
    monkeypatch.setattr("transformers.trainer.is_datasets_available", lambda: False)


def llama():
    sizes = {"hidden_size": 8, "intermediate_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2}
    return LlamaForCausalLM(LlamaConfig(vocab_size=VOCABULARY, **sizes))


def gpt2():
    return GPT2LMHeadModel(
        GPT2Config(vocab_size=VOCABULARY, n_embd=8, n_layer=1, n_head=2, n_positions=16, bos_token_id=0, eos_token_id=0)
    )


def bert(**options):
    sizes = {"hidden_size": 8, "intermediate_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2}
    return BertForSequenceClassification(BertConfig(vocab_size=VOCABULARY, **sizes, **options))


def sentences(n=16, masked=False):
    tokens = torch.randint(1, VOCABULARY, (n, 9))
    labels = tokens.clone()
    if masked:  # every row has its own number of labels
        for row in range(n):
            labels[row, 2 + row % 7 :] = -100
    return [{"input_ids": t, "labels": y} for t, y in zip(tokens, labels, strict=True)]


def trainer(wrapped, data, folder, optimizers=(None, None), **options):
    arguments = TrainingArguments(
        output_dir=str(folder),
        remove_unused_columns=False,
        report_to="none",
        use_cpu=True,
        disable_tqdm=True,
        **{"save_strategy": "no", "logging_strategy": "no", "per_device_train_batch_size": 4, **options},
    )
    return Trainer(wrapped, arguments, train_dataset=data, eval_dataset=data, optimizers=optimizers)


def groups(wrapped, lr=0.05):
    return torch.optim.SGD(likely.param_groups(wrapped.model, wrapped.loss_fn, lr=lr, multiplier=1.0))


def test_token_temperature_is_the_causal_loss_at_its_start():
    lm, batch = llama(), {k: v[None] for k, v in sentences(1)[0].items()}
    wrapped = LikelihoodModel(lm, likely.TokenTemperature(8))
    torch.testing.assert_close(wrapped(**batch).loss, lm(**batch).loss)
    torch.testing.assert_close(wrapped.eval()(input_ids=batch["input_ids"]).logits, lm(**batch).logits)


@pytest.mark.parametrize("features", [None, "model.norm"])
def test_softmax_loss_is_the_causal_loss_at_its_start(features):
    lm, batch = llama(), {k: v[None] for k, v in sentences(1)[0].items()}
    temperature = likely.Predicted(8, weights="zero") if features else None
    wrapped = LikelihoodModel(lm, likely.SoftmaxLoss(temperature), features=features)
    torch.testing.assert_close(wrapped(**batch).loss, lm(**batch).loss)


@pytest.mark.parametrize("kind", ["tokens", "softmax"])
def test_accumulated_batches_are_one_large_batch(kind, tmp_path):
    """With labels spread unevenly, a mean of means would be another number."""
    data, lm = sentences(8, masked=True), llama()
    loss_fn = likely.TokenTemperature(8) if kind == "tokens" else likely.SoftmaxLoss()
    if kind == "tokens":  # the running moments of a batch are its own
        loss_fn.parameter.normalizer = nn.Identity()
    found = []
    for size, steps in ((8, 1), (4, 2), (2, 4)):
        wrapped = copy.deepcopy(LikelihoodModel(lm, loss_fn))
        fitter = trainer(
            wrapped,
            data,
            tmp_path,
            (groups(wrapped), None),
            per_device_train_batch_size=size,
            gradient_accumulation_steps=steps,
            max_steps=1,
            max_grad_norm=0,
        )
        result = fitter.train()
        found.append((result.training_loss, torch.cat([p.detach().flatten() for p in wrapped.parameters()])))
    for loss, weights in found[1:]:
        assert loss == pytest.approx(found[0][0], rel=1e-5)
        torch.testing.assert_close(weights, found[0][1], rtol=1e-4, atol=1e-6)
    pairs = zip(wrapped.loss_fn.parameters(), loss_fn.parameters(), strict=True)
    assert all(not torch.equal(after, before) for after, before in pairs)


@pytest.mark.parametrize("make", [llama, gpt2])
def test_checkpoints_hold_the_likelihood(make, tmp_path):
    """GPT-2 ties its embeddings, which safetensors would refuse."""
    wrapped = LikelihoodModel(make(), likely.TokenTemperature(8))
    fitter = trainer(
        wrapped, sentences(), tmp_path, (groups(wrapped), None), max_steps=4, save_strategy="steps", save_steps=2
    )
    fitter.train()
    learned = {k: v.clone() for k, v in wrapped.state_dict().items()}
    assert learned["loss_fn.parameter.net.0.weight"].abs().sum() > 0

    fresh = LikelihoodModel(make(), likely.TokenTemperature(8))
    trainer(fresh, sentences(), tmp_path, (groups(fresh), None), max_steps=4).train(
        resume_from_checkpoint=str(tmp_path / "checkpoint-4")
    )
    for name, value in fresh.state_dict().items():
        torch.testing.assert_close(value, learned[name], rtol=0, atol=0, msg=name)
    fresh.model.save_pretrained(tmp_path / "alone")
    assert type(fresh.model).from_pretrained(tmp_path / "alone").config.vocab_size == VOCABULARY


def test_a_regressor_predicts_its_scale(tmp_path):
    data = [{"input_ids": row["input_ids"], "labels": torch.randn(())} for row in sentences()]
    loss_fn = likely.NormalLoss(scale=likely.Predicted(8, (1,)))
    wrapped = LikelihoodModel(bert(num_labels=1), loss_fn, features="bert.pooler")
    before = loss_fn.scale.net[0].weight.clone()
    fitter = trainer(wrapped, data, tmp_path, max_steps=3)
    fitter.train()
    assert not torch.equal(before, loss_fn.scale.net[0].weight)  # the Trainer's own optimizer has it too
    assert fitter.evaluate()["eval_loss"] > 0
    assert fitter.predict(data).predictions.shape == (16, 1)


def test_a_row_finds_its_own_temperature(tmp_path):
    data = likely.IndexedDataset([{"input_ids": r["input_ids"], "labels": i % 3} for i, r in enumerate(sentences())])
    wrapped = LikelihoodModel(bert(num_labels=3), likely.SoftmaxLoss(likely.Data(16, fallback="mean")))
    trainer(wrapped, data, tmp_path, max_steps=4).train()
    assert (wrapped.loss_fn.temperature.value != 1).all()


def test_the_monitor_warns_of_a_scale_that_lags_behind(tmp_path):
    """The loss looks at no values itself, as on a GPU."""
    data = [{"input_ids": row["input_ids"], "labels": torch.randn(())} for row in sentences()]
    loss_fn = likely.NormalLoss(likely.Global(init=500.0), validate_args=False)
    wrapped = LikelihoodModel(bert(num_labels=1), loss_fn)
    loss_fn.value_check.steps = 2000
    fitter, monitor = trainer(wrapped, data, tmp_path, max_steps=8), LikelihoodMonitor()
    fitter.add_callback(monitor)
    with pytest.warns(UserWarning, match="scale of NormalLoss is still too large") as warned:
        fitter.train()
    assert len([w for w in warned if "NormalLoss" in str(w.message)]) == 1
    assert monitor.values == {"likelihood/loss_fn.scale": pytest.approx(loss_fn.scale.value.item())}
    assert not loss_fn._forward_pre_hooks


def test_what_cannot_work_says_so(tmp_path):
    with pytest.raises(ValueError, match="reduction='mean'"):
        LikelihoodModel(bert(), likely.SoftmaxLoss(reduction="sum"))
    with pytest.raises(ValueError, match="give the name of the submodule"):
        LikelihoodModel(bert(), likely.SoftmaxLoss(), features="input")
    with pytest.raises(ValueError, match="remove_unused_columns=False"):
        LikelihoodModel(bert(), likely.SoftmaxLoss())(labels=torch.zeros(2))
    capped = llama()
    capped.config.final_logit_softcapping = 30.0
    with pytest.raises(ValueError, match="final_logit_softcapping"):
        LikelihoodModel(capped, likely.TokenTemperature(8))


def accelerated(accumulate):
    torch.manual_seed(0)
    x = torch.randn(32, 3)
    loader = DataLoader(TensorDataset(x, x[:, :1] + 0.1), batch_size=16 // accumulate)
    # A start from the first batch would be one from half as many rows.
    step = likely.Supervised(nn.Linear(3, 1), likely.NormalLoss(likely.Global(init=1.0)))
    optimizer = torch.optim.SGD(likely.param_groups(step.model, step.loss_fn, lr=0.1))
    accelerator = Accelerator(cpu=True, gradient_accumulation_steps=accumulate)
    step, optimizer, loader = accelerator.prepare(step, optimizer, loader)
    for inputs, target in loader:
        with accelerator.accumulate(step):
            accelerator.backward(step(inputs, target))
            optimizer.step()
            optimizer.zero_grad()
    return accelerator.unwrap_model(step)


def test_a_plain_accelerate_loop_trains_the_scale():
    one, two = accelerated(1), accelerated(2)
    assert one.loss_fn.scale.value != 1
    torch.testing.assert_close(one.loss_fn.scale.value, two.loss_fn.scale.value)
