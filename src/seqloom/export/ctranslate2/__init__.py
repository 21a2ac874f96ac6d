"""CTranslate2: conversion, a translator, and export."""
