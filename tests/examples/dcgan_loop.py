#!/usr/bin/python3
"""dcgan_loop.py IMAGES.h5 STEPS: the training loop that docs/training.md compares with dcgan_train's.

The program of pytorch/examples/dcgan in short: pictures (N, 1, 32, 32) of -1..1 are the dataset "images" of the file.
Exit status 77: PyTorch or h5py is not installed.
"""
import sys

try:
    import h5py
    import torch
    from torch import nn, optim
    from torch.utils.data import DataLoader, TensorDataset
except ImportError as missing:
    print(f"skipped: {missing}")
    sys.exit(77)

LATENT, FEATURES, BATCH, SEED = 64, 16, 64, 0

generator = nn.Sequential(
    nn.ConvTranspose2d(LATENT, 4 * FEATURES, 4, 1, 0, bias=False), nn.BatchNorm2d(4 * FEATURES), nn.ReLU(),
    nn.ConvTranspose2d(4 * FEATURES, 2 * FEATURES, 4, 2, 1, bias=False), nn.BatchNorm2d(2 * FEATURES), nn.ReLU(),
    nn.ConvTranspose2d(2 * FEATURES, FEATURES, 4, 2, 1, bias=False), nn.BatchNorm2d(FEATURES), nn.ReLU(),
    nn.ConvTranspose2d(FEATURES, 1, 4, 2, 1, bias=False), nn.Tanh())
discriminator = nn.Sequential(
    nn.Conv2d(1, FEATURES, 4, 2, 1, bias=False), nn.LeakyReLU(0.2),
    nn.Conv2d(FEATURES, 2 * FEATURES, 4, 2, 1, bias=False), nn.BatchNorm2d(2 * FEATURES), nn.LeakyReLU(0.2),
    nn.Conv2d(2 * FEATURES, 4 * FEATURES, 4, 2, 1, bias=False), nn.BatchNorm2d(4 * FEATURES), nn.LeakyReLU(0.2),
    nn.Conv2d(4 * FEATURES, 1, 4, 1, 0, bias=False))


def init_dcgan(module):
    if isinstance(module, (nn.Conv2d, nn.ConvTranspose2d)):
        nn.init.normal_(module.weight, 0.0, 0.02)
    elif isinstance(module, nn.BatchNorm2d):
        nn.init.normal_(module.weight, 1.0, 0.02)
        nn.init.zeros_(module.bias)


def batches(loader):
    while True:
        yield from loader


torch.manual_seed(SEED)
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
pictures = TensorDataset(torch.from_numpy(h5py.File(sys.argv[1])["images"][()]))
loader = DataLoader(pictures, batch_size=BATCH, shuffle=True, drop_last=True)

generator.to(device).apply(init_dcgan)
discriminator.to(device).apply(init_dcgan)
bce = nn.BCEWithLogitsLoss()
g_adam = optim.Adam(generator.parameters(), lr=2e-4, betas=(0.5, 0.999))
d_adam = optim.Adam(discriminator.parameters(), lr=2e-4, betas=(0.5, 0.999))
fixed = torch.randn(64, LATENT, 1, 1, device=device)

for step, (real,) in zip(range(int(sys.argv[2])), batches(loader)):
    real = real.to(device)
    z = torch.randn(BATCH, LATENT, 1, 1, device=device)
    fake = generator(z)

    discriminator.zero_grad()
    on_real = discriminator(real)
    on_fake = discriminator(fake.detach())
    d_loss = bce(on_real, torch.ones_like(on_real)) + bce(on_fake, torch.zeros_like(on_fake))
    d_loss.backward()
    d_adam.step()

    generator.zero_grad()
    judged = discriminator(fake)
    g_loss = bce(judged, torch.ones_like(judged))
    g_loss.backward()
    g_adam.step()

    if step % 500 == 0:
        print(step, d_loss.item(), g_loss.item())
        generator.eval()
        with torch.no_grad():
            samples = generator(fixed).cpu()
        generator.train()
        torch.save({"g": generator.state_dict(), "d": discriminator.state_dict(), "g_adam": g_adam.state_dict(),
                    "d_adam": d_adam.state_dict(), "step": step, "random": torch.get_rng_state()}, "checkpoint.pt")

torch.save(generator.state_dict(), "generator.pt")
