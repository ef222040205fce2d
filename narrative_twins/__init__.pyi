"""The public names, which are imported when they are used, since most of their modules import large
libraries."""

from . import baselines as baselines
from . import corpora as corpora
from . import data as data
from . import evaluation as evaluation
from . import show as show
from . import training as training
from .books.result import BookExtract as BookExtract
from .books.result import BookSalience as BookSalience
from .books.scoring import score_book as score_book
from .corpora.scorer import StoryScorer as StoryScorer
from .encoder.loading import default_encoder as default_encoder
from .encoder.story_encoder import StoryEncoder as StoryEncoder
from .encoder.tokenizer import Window as Window
from .evaluation import metrics as metrics
from .evaluation.run import evaluate as evaluate
from .hub.facts import DatasetFacts as DatasetFacts
from .hub.facts import EncoderFacts as EncoderFacts
from .hub.facts import Figure as Figure
from .hub.push import HubError as HubError
from .hub.push import push_dataset as push_dataset
from .hub.push import push_encoder as push_encoder
from .pipeline import SaliencePipeline as SaliencePipeline
from .salience.engine import score_stories as score_stories
from .salience.operations import OPERATIONS as OPERATIONS
from .salience.operations import Operation as Operation
from .salience.operations import cosine as cosine
from .salience.operations import register_operation as register_operation
from .salience.result import SalientSentence as SalientSentence
from .salience.result import StorySalience as StorySalience
from .stories.groups import group_rows as group_rows
from .stories.sentences import split_sentences as split_sentences
from .stories.story import Order as Order
from .stories.story import Story as Story
from .stories.story import StoryError as StoryError
from .training.evaluators import SalienceEvaluator as SalienceEvaluator
from .training.evaluators import TwinsEvaluator as TwinsEvaluator
from .training.losses import NarrativeTwinsLoss as NarrativeTwinsLoss
from .training.losses import TwinsCollator as TwinsCollator
from .training.salience_loss import JudgedStoriesCollator as JudgedStoriesCollator
from .training.salience_loss import SalienceLoss as SalienceLoss
from .training.trainer import NarrativeTwinsTrainer as NarrativeTwinsTrainer
from .training.trainer import NarrativeTwinsTrainingArguments as NarrativeTwinsTrainingArguments
from .training.trainer import trainable_encoder as trainable_encoder

__version__: str
