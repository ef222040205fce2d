"""Training of story encoders: losses with their collators, trainer, evaluators, and the settings
of training scripts."""

from narrative_twins.extras import check_extra as _check_extra

_check_extra("train")

from narrative_twins.training.estimate import EstimateCallback as EstimateCallback
from narrative_twins.training.estimate import TrainingEstimate as TrainingEstimate
from narrative_twins.training.estimate import TrainingMemory as TrainingMemory
from narrative_twins.training.estimate import estimate_training as estimate_training
from narrative_twins.training.estimate import training_memory as training_memory
from narrative_twins.training.evaluators import SalienceEvaluator as SalienceEvaluator
from narrative_twins.training.evaluators import TwinsEvaluator as TwinsEvaluator
from narrative_twins.training.losses import NarrativeTwinsLoss as NarrativeTwinsLoss
from narrative_twins.training.losses import TwinsCollator as TwinsCollator
from narrative_twins.training.reports import run_summary as run_summary
from narrative_twins.training.salience_loss import JudgedStoriesCollator as JudgedStoriesCollator
from narrative_twins.training.salience_loss import SalienceLoss as SalienceLoss
from narrative_twins.training.script_arguments import ScriptArguments as ScriptArguments
from narrative_twins.training.script_arguments import parse_arguments as parse_arguments
from narrative_twins.training.trainer import NarrativeTwinsTrainer as NarrativeTwinsTrainer
from narrative_twins.training.trainer import (
    NarrativeTwinsTrainingArguments as NarrativeTwinsTrainingArguments,
)
from narrative_twins.training.trainer import trainable_encoder as trainable_encoder
from narrative_twins.training.triples import triples_and_loss as triples_and_loss
