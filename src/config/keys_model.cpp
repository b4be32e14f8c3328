// Keys of the model.
#include "config/key_rows.h"

namespace dtn::config {

namespace {

// The type of the decoder's normalizer; its options follow.
Key decoder_norm_type() {
  return {.path = cat(kDecoderNormSection, ".type"),
          .doc =
              "normalizer of the decoder and of the blocks between it and the encoder, which may "
              "read a condition; its options are keys of this section, as in norm; unset: norm, "
              "with its options",
          .read =
              [](const Field& field, ExperimentConfig& c) {
                if (!c.model.decoder_norm) c.model.decoder_norm.emplace();
                read_value(field, kAny, c.model.decoder_norm->type);
              },
          .write = [](const ExperimentConfig& c) -> std::string {
            return c.model.decoder_norm ? write_value(c.model.decoder_norm->type) : "null";
          },
          .type = "text",
          .example = "spade"};
}

}  // namespace

std::vector<Key> model_keys() {
  return {
      value(KEY(model.preset), "deit_small",
            "model that the other keys of this section start from; an architecture that dtn-info "
            "--models lists is a preset, too"),
      value(KEY(model.image_size), between(1, 8192),
            "height and width of the model's input images, in pixels: one number, or [height, "
            "width]; must be divisible by patch_size"),
      value(KEY(model.patch_size), between(1, 8192),
            "height and width of a patch, in pixels; each patch becomes one token; in models with "
            "several stages, the first stride"),
      value(KEY(model.channels), between(1, 1024),
            "channels of the images: 3 for colour, 1 for grey; weights of another number are "
            "summed to one channel, or repeated and scaled, as in timm"),
      value(KEY(model.num_classes), between(0, 1e6),
            "number of classes, which are the outputs of the head; 0: no head, the outputs are the "
            "features that the head would read; if a training config omits the key, the number of "
            "classes of the training data"),
      value(KEY(model.embed_dim), between(1, 65536),
            "width of the model: channels of a token, divisible by num_heads; one number, or a "
            "list with one per stage"),
      value(KEY(model.depth), between(1, 1000),
            "number of blocks, or a list with one number per stage; the length of the list is the "
            "number of stages"),
      value(KEY(model.num_heads), between(1, 65536),
            "number of attention heads of each block, or a list with one number per stage"),
      value(KEY(model.mlp_ratio), {.low = 0, .high = 64, .low_open = true},
            "hidden width of the MLP relative to embed_dim, or a list with one ratio per stage"),
      value(KEY(model.reduction), between(1, 1024), "[8, 4, 2, 1]",
            "ratio of the query grid to the key and value grid along each side, for each stage "
            "(PVT); unset in families without this reduction"),
      value(KEY(model.window), between(1, 1024), "7",
            "side of the attention windows, in tokens (Swin); unset in families without windows"),
      choice(
          KEY(model.mlp), {"plain", "swiglu_packed"},
          "MLP of a block: plain is fc2(act(fc1 x)); swiglu_packed is fc2(act(g) u) with the "
          "halves g, u of fc1 x, which is SwiGLU with act: silu; mlp_ratio sets the width of fc1"),
      choice(KEY(model.act), {"gelu", "gelu_tanh", "quick_gelu", "silu", "relu"},
             "activation of the MLP: gelu (exact), gelu_tanh (approximation by tanh), quick_gelu "
             "(x sigmoid(1.702 x)), silu or relu; in models of convolutions: behind each of them"),
      value(KEY(model.qkv_bias), "adds a bias to the projection to queries, keys and values"),
      value(KEY(model.qk_norm),
            "applies LayerNorm to each head's queries and keys before their product"),
      value(KEY(model.class_token), "true", "adds a class token; unset: true if pool is cls"),
      value(KEY(model.distilled),
            "adds a distillation token with its own head, as in DeiT; the logits of the two heads "
            "are averaged"),
      value(KEY(model.registers), between(0, 1024), "4",
            "number of learned tokens that take part in the attention but that the head does not "
            "read"),
      value(KEY(model.class_token_at), between(0, 1000),
            "block before which class token and registers join the patches, counted from 0; unset "
            "in a model too shallow for the preset's value: two blocks before the end"),
      choice(KEY(model.pos_embed), {"patch", "all"},
             "tokens that have a learned position: patch (only the patches) or all (also class "
             "token and registers)"),
      choice(KEY(model.pos_resize), {"bicubic", "bicubic_antialias", "bilinear"},
             "resizing of the positions of init_weights to another grid: bicubic (as in DeiT), "
             "bicubic_antialias (as in timm) or bilinear (as in PVT)"),
      choice(KEY(model.pool), {"cls", "mean"},
             "input of the head: cls (the class token) or mean (the mean of the patches)"),
      value(KEY(model.patch_bias), "false",
            "adds a bias to the convolution that turns patches into tokens; unset: true if "
            "norm_pre is false"),
      value(KEY(model.norm_pre),
            "applies LayerNorm to all tokens before the first block, as in CLIP"),
      value(KEY(model.fc_norm),
            "places the last LayerNorm after the pooling, under the name fc_norm"),
      value(KEY(model.layer_scale), "1e-4",
            "LayerScale: initial value of the learned factors on the channels of each branch; "
            "unset: no factors"),
      value(KEY(model.drop_path), fraction(), "0.1",
            "stochastic depth: probability that a sample skips a residual branch of the last "
            "block; see drop_path_mode"),
      choice(KEY(model.drop_path_mode), {"linear", "constant"},
             "drop_path over the blocks: linear (from 0 at the first block to drop_path at the "
             "last) or constant (drop_path at all blocks)"),
      value(KEY(model.dropout), fraction(), "0.1",
            "dropout probability after the positions, the attention projection and both layers of "
            "the MLP"),
      value(
          "model.attention_dropout", FIELD(model.attention.dropout), fraction(), "0.1",
          "dropout probability of the attention weights, in sequence models with dense attention"),
      value(KEY(model.max_length), between(0, 1 << 20),
            "number of tokens of the longest sequence that the model reads, without the class "
            "token; longer sequences are cut at the end; 0 in models of images"),
      choice(KEY(model.attention.variant), {"clean", "lra"},
             "BigBird and Reformer: clean (as in their papers) or lra (as in the Long-Range "
             "Arena's code, where attention includes pads)"),
      value(KEY(model.attention.block_size), between(1, 65536),
            "BigBird: number of tokens of a block"),
      value(KEY(model.attention.random_blocks), between(1, 1024),
            "BigBird: number of random blocks that each block attends to, besides its neighbours, "
            "the first and the last block"),
      value(KEY(model.attention.hashes), between(1, 64), "Reformer: number of hashing rounds"),
      value(KEY(model.attention.buckets), between(2, 65536),
            "Reformer: number of buckets per round, an even number; also the number of chunks that "
            "the sorted tokens are cut into"),
      value(KEY(model.eps), above(0),
            "added to the variances in the norms, before the square root"),
      value(KEY(model.mhsa_position),
            "adds relative positions to the attention (equation 6 of the DTN paper), in the blocks "
            "before the class token joins; in PVT, in all stages but the last"),
      choice(KEY(model.condition.into), {"adaln_zero", "adaln", "in_context", "cross_attention"},
             "way of noise level and class into the blocks of a diffusion transformer: adaln_zero "
             "(gains and shifts of the norms, and gates on the branches that start at 0), adaln "
             "(the same without gates), in_context (two more tokens) or cross_attention"),
      choice(KEY(model.condition.from), {"vector", "index", "image"}, "index",
             "condition that conditional normalizers read from the data: vector (the field "
             "`vector`, condition.size numbers for each sample; for cin, weights of the styles), "
             "index (the field `style`, whose learned vector is looked up; for cin, the style) or "
             "image (the field `style_image`, which a small network turns into a vector; adain "
             "reads it itself); unset: none"),
      value(KEY(model.condition.size), between(1, 65536), "128",
            "length of the condition's vectors, and number of channels of the map for spade; "
            "unset with condition.from: index: embed_dim"),
      value(KEY(model.condition.styles), between(1, 1e6), "2",
            "number of styles, whose indices are 0 to styles - 1"),
      value(KEY(model.condition.mapping), between(1, 65536),
            "adain_mlp: width of the network of two layers that all its norms share"),
      value(KEY(model.learn_sigma),
            "diffusion: the model also predicts the variance of each step, which doubles its "
            "output channels"),
      value(KEY(model.label_dropout), fraction(), "0.1",
            "diffusion: probability that training hides the label of an image; guidance needs it"),
      choice("model.detector", FIELD(model.detector.kind), {"retinanet", "mask_rcnn"}, "retinanet",
             "detector on the features of the model's stages: retinanet (boxes) or mask_rcnn "
             "(boxes and masks); unset: none"),
      value("model.fpn_channels", FIELD(model.detector.fpn_channels), between(1, 65536),
            "detectors: channels of each level of the feature pyramid"),
      value("model.head_convs", FIELD(model.detector.head_convs), between(0, 64),
            "detectors: number of convolutions in each head of retinanet, and in the mask head of "
            "mask_rcnn"),
      value("model.head_fc", FIELD(model.detector.head_fc), between(1, 65536),
            "mask_rcnn: hidden width of the box head"),
      value("model.rpn_samples", FIELD(model.detector.rpn_samples), between(2, 1e6),
            "mask_rcnn: number of anchors of an image that train the proposals, at most half of "
            "them on an object"),
      value("model.roi_samples", FIELD(model.detector.roi_samples), between(1, 1e6),
            "mask_rcnn: number of regions of an image that train the heads, at most a quarter of "
            "them on an object"),
      value(
          KEY(model.init_weights), "weights/model.safetensors",
          "weights to start from: a safetensors file, such as timm's model.safetensors, the folder "
          "of a checkpoint, of a run or of a model from the Hugging Face hub, or the name of a "
          "public model that dtn-get has fetched; positions are resized to this model's grid; a "
          "head of another size is initialized anew"),
      choice(KEY(model.init_head), {"keep", "reset"},
             "head of the model: keep uses the head of init_weights; reset initializes a new head, "
             "even if that one fits"),
      value(KEY(model.init_image_size), between(1, 8192), "[288, 512]",
            "image size that the loaded weights were trained at, in pixels: one number, or "
            "[height, width]; needed if the file has no dtn config and the grid of its positions "
            "is not square; a config in the file takes precedence"),
      value(KEY(model.norm.type),
            "normalizer of the first norm.layers blocks; the other blocks and the last norm use "
            "LayerNorm"),
      value(KEY(model.norm.layers), between(0, 1000), "10",
            "number of blocks, from the first, that use norm.type (in PVT and Swin: of stages); "
            "unset: class_token_at, or all blocks if there is no class token or norm.prefix is ln; "
            "in PVT, all stages but the last"),
      value(KEY(model.norm.eps), above(0), "1e-6",
            "added to the variances in norm.type, before the square root; unset: model.eps, or "
            "1e-5 for dtn in models with several stages"),
      value(KEY(model.norm.affine), "false",
            "learned gain and shift of each channel in norm.type; unset: true, or false in models "
            "whose condition gives gains and shifts"),
      decoder_norm_type(),
      value(KEY(model.out_channels), between(1, 65536), "1",
            "channels of the output image; unset: model.channels"),
      value(KEY(model.bottleneck), between(0, 1000),
            "number of residual blocks between encoder and decoder"),
      choice(KEY(model.shortcut), {"none", "concat", "ms", "dms"},
             "what the decoder receives from the encoder at each resolution: none, concat (its "
             "features, as in a U-Net), ms (the moments of each position, see pono) or dms (gains "
             "and shifts that a small network computes from these moments)"),
      value(KEY(model.shortcut_hidden), between(1, 65536), "32",
            "dms: channels inside this network; unset: the first of embed_dim"),
      value(KEY(model.pono), "true",
            "positional normalization: the last convolution of each level of the encoder is "
            "followed by a normalization of each position over its channels, ahead of norm.type; "
            "unset: true with the shortcuts ms and dms, which carry the moments"),
      value(KEY(model.residual), "adds the input image to the output"),
  };
}

}  // namespace dtn::config
